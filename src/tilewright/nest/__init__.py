"""Loop nests read once from TensorIR: loops, accesses, footprints, and where buffers live."""
