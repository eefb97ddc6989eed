from contextlib import contextmanager


class Timer:
    """AI Toolkit's timer without the times."""

    @contextmanager
    def __call__(self, name):
        yield

    def start(self, name):
        pass

    def stop(self, name):
        pass
