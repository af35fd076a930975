"""Code generators: lowered TensorIR to LLVM IR, C and CUDA."""
