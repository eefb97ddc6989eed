import copy
import json

from toolkit.timer import Timer


class BaseProcess:
    def __init__(self, process_id, job, config):
        self.process_id = process_id
        self.job = job
        self.config = config
        self.name = self.get_conf("name", job.name)
        self.meta = copy.deepcopy(job.meta)
        self.timer = Timer()
        self.performance_log_every = self.get_conf("performance_log_every", 0)
        print(json.dumps(self.config, indent=4))

    def get_conf(self, key, default=None, required=False):
        value = self.config
        for part in key.split("."):
            value = value[part] if isinstance(value, dict) and part in value else None
            if value is None:
                break
        if value is None and required:
            raise ValueError(f'config file error. Missing "config.process[{self.process_id}].{key}" key')
        return default if value is None else value

    def on_error(self, error):
        pass

    def run(self):
        pass

    def add_meta(self, more):
        self.meta.update(more)
