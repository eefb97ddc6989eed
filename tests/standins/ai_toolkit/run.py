"""Stands in for AI Toolkit's run.py: the same options, lines and exit codes."""

import os
import sys

sys.path.insert(0, os.getcwd())

import argparse
import gc
import random

import numpy
import torch
import torch._dynamo  # torch's optimizers would import it later

if "SEED" in os.environ:
    seed = int(os.environ["SEED"])
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)

from toolkit.accelerator import get_accelerator
from toolkit.job import get_job
from toolkit.print import print_acc, setup_log_to_file

accelerator = get_accelerator()


def print_end_message(completed, failed):
    print_acc("")
    print_acc("=" * 40)
    print_acc("Result:")
    print_acc(f" - {completed} completed job{'' if completed == 1 else 's'}")
    if failed:
        print_acc(f" - {failed} failure{'' if failed == 1 else 's'}")
    print_acc("=" * 40)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config_file_list", nargs="+", type=str)
    parser.add_argument("-r", "--recover", action="store_true")
    parser.add_argument("-n", "--name", type=str, default=None)
    parser.add_argument("-l", "--log", type=str, default=None)
    args = parser.parse_args()
    if args.log is not None:
        setup_log_to_file(args.log)
    files = args.config_file_list
    completed = failed = 0
    print_acc(f"Running {len(files)} job{'' if len(files) == 1 else 's'}")
    for file in files:
        try:
            job = get_job(file, args.name)
            job.run()
            job.cleanup()
            completed += 1
        except Exception as error:
            print_acc(f"Error running job: {error}")
            failed += 1
            try:
                job.process[0].on_error(error)
            except Exception as second:
                print_acc(f"Error running on_error: {second}")
            if not args.recover:
                print_end_message(completed, failed)
                raise error
        except KeyboardInterrupt as error:
            try:
                job.process[0].on_error(error)
            except Exception as second:
                print_acc(f"Error running on_error: {second}")
            if not args.recover:
                print_acc("")
                print_acc("=" * 40)
                print_acc("Job stopped")
                print_acc("=" * 40)
                sys.exit(0)


if __name__ == "__main__":
    gc.freeze()  # what was imported stays; flush() looks only at what comes after, and takes no time
    main()
