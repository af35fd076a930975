"""Post-processors."""

from tilewright.space.base import Postproc as Postproc
from tilewright.space.postprocs import *  # noqa: F403 - a list of names

PyPostproc = Postproc
create = Postproc.create
