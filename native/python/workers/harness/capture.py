"""Captures CUDA graphs on all ranks together, and tries again if a capture fails."""

from .protocol import Broken

ATTEMPTS = 2  # the cause of a failed capture may be temporary


class Graphs:
    """The CUDA graphs of one process, by name. They share one pool of memory."""

    def __init__(self, cuda, ranks):
        self.cuda, self.ranks = cuda, ranks
        self.forget()

    def forget(self):
        self.kept, self.pool = {}, None

    def get(self, name, make):
        """Returns what make() returned for this name. It calls make() only at the first use of the name."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def capture(self, run):
        """Returns a function that replays run(). If the capture fails on a rank, all ranks free their graphs and
        capture again. If a second capture fails too, they raise Broken."""
        for _ in range(ATTEMPTS):
            self.cuda.synchronize()
            self.ranks.barrier()
            graph, why = self._attempt(run)
            failed = [(rank, reason) for rank, reason in enumerate(self.ranks.exchange(why)) if reason]
            if not failed:
                self.pool = self.pool or graph.pool()
                self._settle()
                self.ranks.barrier()
                return graph.replay
            del graph
            self.forget()
            self._settle()
        raise Broken("launch", "rank %d: capturing a CUDA graph failed %d times: %s" % (failed[0][0], ATTEMPTS, failed[0][1]))

    def _attempt(self, run):
        """Returns (graph, None) or (None, reason). torch.cuda.graph does not restore the current stream after a
        failed capture, so this function does."""
        stream, graph = self.cuda.current_stream(), self.cuda.CUDAGraph()
        try:
            with self.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                run()
        except Exception as e:
            self.cuda.set_stream(stream)
            self.cuda.graph.default_capture_stream = None
            return None, "%s: %s" % (type(e).__name__, e)
        return graph, None

    def _settle(self):
        """Waits for the GPU. Raises Broken on an error, because no call can use the GPU's context after it."""
        try:
            self.cuda.synchronize()
        except Exception as e:
            raise Broken("launch", "after capturing a CUDA graph: %s: %s" % (type(e).__name__, e)) from None
