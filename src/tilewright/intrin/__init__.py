"""The built-in tensor instructions; importing this package makes them known to `tensorize`."""

from tilewright.intrin import x86 as x86
