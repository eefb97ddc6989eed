import os
import sys

from toolkit.accelerator import get_accelerator


def print_acc(*args, **kwargs):
    if get_accelerator().is_local_main_process:
        print(*args, **kwargs)


class Logger:
    def __init__(self, terminal, file):
        self.terminal, self.file = terminal, file

    def write(self, text):
        self.terminal.write(text)
        self.file.write(text)
        self.file.flush()

    def flush(self):
        self.terminal.flush()
        self.file.flush()

    def isatty(self):
        return self.terminal.isatty()


def setup_log_to_file(name):
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    file = open(name, "a")
    sys.stdout, sys.stderr = Logger(sys.stdout, file), Logger(sys.stderr, file)
