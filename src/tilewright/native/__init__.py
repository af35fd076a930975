"""Hand-written native code of all backends: thread pool, allocator, AMX tiles, ELF linker."""
