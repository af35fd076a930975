"""The formats of TVM's two-file database: modules as graphs of objects, records as JSON lines."""
