from jobs.BaseJob import BaseJob
from toolkit.extension import get_all_extensions_process_dict


class ExtensionJob(BaseJob):
    def __init__(self, config):
        super().__init__(config)
        self.device = self.get_conf("device", "cpu")
        self.process_dict = get_all_extensions_process_dict()
        self.load_processes(self.process_dict)

    def run(self):
        super().run()
        print("")
        print(f"Running  {len(self.process)} process{'' if len(self.process) == 1 else 'es'}")
        for process in self.process:
            process.run()
