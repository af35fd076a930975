"""The LLVM backend: lowered TensorIR to LLVM IR (`module`), and that to objects (`compiler`)."""
