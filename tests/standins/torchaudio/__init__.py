from absent import replace

replace(__name__, "transforms", "functional")
