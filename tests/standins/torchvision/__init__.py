from absent import replace

replace(__name__, "ops", "transforms", "transforms.functional")
