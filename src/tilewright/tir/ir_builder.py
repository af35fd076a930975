"""The imperative builder of TensorIR."""

from tilewright.ir.builder import BufferVar as BufferVar, IRBuilder as IRBuilder, create as create
