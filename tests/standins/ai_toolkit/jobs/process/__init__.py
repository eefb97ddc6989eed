from .BaseProcess import BaseProcess
from .BaseTrainProcess import BaseTrainProcess
from .BaseSDTrainProcess import BaseSDTrainProcess
