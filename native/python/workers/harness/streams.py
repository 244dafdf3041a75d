"""Captures rounds in CUDA graphs. In a round, calls and a matrix product run on two streams of a GPU.

The stream of the calls has a high priority, and the stream of the product has a low priority. Kernels in a graph keep
the priority of their stream.
"""

MARKS = 4  # how many events in a round show the product's progress
STEP_ATTENTION = (0, 3)  # calls of a decode step during which attention runs; during all others, the experts run


class Streams:
    def __init__(self, cuda):
        self.cuda, self.calls, self.side = cuda, cuda.Stream(priority=-1), cuda.Stream(priority=0)

    def event(self):
        """Returns an event that a graph records at each replay."""
        return self.cuda.Event(enable_timing=True, external=True)

    def fork(self):
        now = self.cuda.current_stream()
        self.calls.wait_stream(now)
        self.side.wait_stream(now)

    def join(self):
        now = self.cuda.current_stream()
        now.wait_stream(self.calls)
        now.wait_stream(self.side)

    def meet(self):
        self.calls.wait_stream(self.side)
        self.side.wait_stream(self.calls)


class Course:
    """The launches of a product in one round. Events after some launches show the product's progress."""

    def __init__(self, launches, marks, event):
        self.launches, n = launches, len(launches)
        self.marks = {i: event() for i in range(n) if (i + 1) * marks // n > i * marks // n}

    def run(self):
        for i, launch in enumerate(self.launches):
            launch()
            if i in self.marks:
                self.marks[i].record()

    def seconds(self, begin):
        return seconds(begin, self.marks[len(self.launches) - 1])

    def done_at(self, begin, at):
        """Returns the fraction of the product that had run when `at` seconds had passed since `begin`. It
        interpolates between events."""
        before, share = 0.0, 0.0
        for i, mark in self.marks.items():
            when, done = seconds(begin, mark), (i + 1) / len(self.launches)
            if at < when:
                return share + (done - share) * max(at - before, 0.0) / (when - before)
            before, share = when, done
        return 1.0


def seconds(begin, end):
    return begin.elapsed_time(end) * 1e-3


class Round:
    """A round of `calls` calls. product() runs the product without calls. both() runs calls and product together.
    Each returns two functions. The caller captures the first in a graph, and calls the second after a replay to read
    the events."""

    def __init__(self, streams, plan, calls):
        self.streams, self.plan, self.calls = streams, plan, calls
        self.beside, self.event = plan.beside, streams.event

    def launches(self):
        """Returns the product's launches in a round, and how many events shall show their progress."""
        product, share = self.beside.product, self.beside.share
        if self.beside.step:
            return [x for _ in range(self.calls) for i in range(len(self.plan.parts)) for x in self.step_product(i)], 1
        return [lambda i=i: product.launch(i) for i in range(self.calls * share)], MARKS

    def step_product(self, i):
        """Returns the launches that run during call i of a decode step: attention, or the experts' product."""
        product, attention = self.beside.product, self.beside.attention
        if i in STEP_ATTENTION:
            return [lambda: attention.launch(0)]
        return [lambda n=n: product.launch(n) for n in range(self.beside.share)]

    def product(self):
        begin, course = self.event(), Course(*self.launches(), self.event)

        def run():
            begin.record()
            self.streams.fork()
            with self.streams.cuda.stream(self.streams.side):
                course.run()
            self.streams.join()

        return run, lambda: {"product": course.seconds(begin) / self.calls}

    def both(self):
        if all(p.phases for p in self.plan.parts):
            return self.phases()
        return self.step_abreast() if self.beside.step else self.abreast()

    def abreast(self):
        begin, end, course = self.event(), self.event(), Course(*self.launches(), self.event)

        def run():
            begin.record()
            self.streams.fork()
            with self.streams.cuda.stream(self.streams.side):
                course.run()
            with self.streams.cuda.stream(self.streams.calls):
                for _ in range(self.calls):
                    for part in self.plan.parts:
                        part.whole()
                end.record()
            self.streams.join()

        def read():
            call, product = seconds(begin, end), course.seconds(begin)
            return {"both": max(call, product) / self.calls, "call_in": call / self.calls, "product_in": product / self.calls,
                    "done": course.done_at(begin, call)}

        return run, read

    def step_abreast(self):
        """Runs each call of one micro-batch at the same time as a product of the second micro-batch. It queues the
        call first. If a product that fills the GPU were first, the call could not begin."""
        begin, end, cuda = self.event(), self.event(), self.streams.cuda

        def run():
            begin.record()
            self.streams.fork()
            for _ in range(self.calls):
                for i, part in enumerate(self.plan.parts):
                    with cuda.stream(self.streams.calls):
                        part.whole()
                    with cuda.stream(self.streams.side):
                        for launch in self.step_product(i):
                            launch()
                    self.streams.meet()
            with cuda.stream(self.streams.calls):
                end.record()
            self.streams.join()

        def read():
            both = seconds(begin, end) / self.calls
            return {"both": both, "call_in": both, "product_in": both, "done": 1.0}

        return run, read

    def phases(self):
        """Runs send, product and receive on one stream. The timed calls have no events between these phases, because
        an event takes about as long as a short send. So one more call after the timed calls has such events."""
        begin, end = self.event(), self.event()
        halves = [[self.event() for _ in range(4)] for _ in self.plan.parts]

        def run():
            begin.record()
            for _ in range(self.calls):
                self.unit(lambda i, n: None)
            end.record()
            self.unit(lambda i, n: halves[i][n].record())

        def read():
            return {"both": seconds(begin, end) / self.calls, "done": 1.0,
                    "call_in": sum(seconds(h[0], h[1]) + seconds(h[2], h[3]) for h in halves),
                    "product_in": sum(seconds(h[1], h[2]) for h in halves)}

        return run, read

    def unit(self, around):
        """Runs a call in phases: send, product, receive. Before and after each phase it calls around(i, n) for part
        i. n is 0 before the send, 1 before the product, 2 after the product and 3 after the receive."""
        for i, part in enumerate(self.plan.parts):
            send, receive = part.phases
            around(i, 0)
            send()
            around(i, 1)
            for launch in self.between(i):
                launch()
            around(i, 2)
            receive()
            around(i, 3)

    def between(self, i):
        """Returns the product's launches between send and receive of part i."""
        if self.beside.step:
            return self.step_product(i)
        share, n, product = self.beside.share, len(self.plan.parts), self.beside.product
        return [lambda k=k: product.launch(k) for k in range(share * i // n, share * (i + 1) // n)]
