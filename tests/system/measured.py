"""Kernels whose records are looked at: a hierarchy of three levels, on threads and on processes. Copied beside each TOML."""

from __future__ import annotations

from appbackplane.runtime import operation
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable


class Tree(Runnable):
    """Feeds files."""

    def execute(self, request: int, kernel: Context) -> int:
        kernel.post_all([request] * request, File, lane=2)
        return sum(done.result for done in kernel.joined())


class File(Runnable):
    """Has chunks."""

    def execute(self, request: int, kernel: Context) -> int:
        kernel.post_all(range(request), Chunk, lane=3)
        return sum(done.result for done in kernel.joined())


class Chunk(Runnable):
    """Is one."""

    def execute(self, request: int, kernel: Context) -> int:
        return 1


class Index(RequestKernel):
    """On threads."""

    runnables = (Tree, File, Chunk)
    policy = KernelPolicy(workers=4, mode="lanes", lanes=(0, 25, 25), record_interval=0.1)

    @operation()
    def work(self, width: int) -> int:
        """Chunks of that many files with that many chunks."""
        self.kernel.post(width, Tree, lane=1, owner="work")
        return sum(done.result for done in self.kernel.joined("work"))


class Spread(Index):
    """On processes."""

    policy = KernelPolicy(kind="processes", workers=2, mode="lanes", lanes=(0, 0, 0), record_interval=0.1)

    @operation()
    def count(self, width: int) -> int:
        """So many chunks."""
        self.kernel.post_all(range(width), Chunk, owner="count")
        return sum(done.result for done in self.kernel.joined("count"))
