"""TVM's side of `tune_cpu`: `["tune", name, index, trials]`; see `tvm_session`."""

from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload
from tvm_session import Session, serve


class Workloads(Session):
    """The workloads that TVM comes with."""

    def create(self, name: str, index: int):
        return create_te_workload(name, index)


if __name__ == "__main__":
    serve(Workloads)
