"""Hand-written native code of all backends: threads, allocator, AMX tiles, capsules, ELF linker."""
