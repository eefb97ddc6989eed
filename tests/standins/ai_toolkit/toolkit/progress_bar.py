from tqdm import tqdm


class ToolkitProgressBar(tqdm):
    """A bar whose clock stands still while it is paused."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("smoothing", 0.7)
        super().__init__(*args, **kwargs)
        self.paused = False
        self.last_time = self._time()

    def pause(self):
        if not self.paused:
            self.paused = True
            self.last_time = self._time()

    def unpause(self):
        if self.paused:
            self.paused = False
            now = self._time()
            self.start_t += now - self.last_time
            self.last_print_t = now

    def update(self, *args, **kwargs):
        if not self.paused:
            super().update(*args, **kwargs)
