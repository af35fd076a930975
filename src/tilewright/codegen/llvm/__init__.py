"""Lowered TensorIR to LLVM IR."""

from tilewright.codegen.llvm.module import LLVMSource as LLVMSource, generate as generate
