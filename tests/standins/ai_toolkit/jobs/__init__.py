from .BaseJob import BaseJob
from .ExtensionJob import ExtensionJob
