import importlib
from collections import OrderedDict


class BaseJob:
    def __init__(self, config):
        if not config:
            raise ValueError("config is required")
        self.config = config["config"]
        self.raw_config = config
        self.job = config["job"]
        self.name = self.get_conf("name", required=True)
        self.meta = config.get("meta", OrderedDict())
        self.process = []

    def get_conf(self, key, default=None, required=False):
        if key in self.config:
            return self.config[key]
        if required:
            raise ValueError(f'config file error. Missing "config.{key}" key')
        return default

    def run(self):
        print("")
        print("#" * 45)
        print(f"# Running job: {self.name}")
        print("#" * 45)
        print("")

    def load_processes(self, process_dict):
        if "process" not in self.config:
            raise ValueError('config file is invalid. Missing "config.process" key')
        module = importlib.import_module("jobs.process")
        for number, process in enumerate(self.config["process"]):
            if "type" not in process:
                raise ValueError(f'config file is invalid. Missing "config.process[{number}].type" key')
            if process["type"] not in process_dict:
                raise ValueError(f"config file is invalid. Unknown process type: {process['type']}")
            cls = process_dict[process["type"]]
            self.process.append((getattr(module, cls) if isinstance(cls, str) else cls)(number, self, process))

    def cleanup(self):
        pass
