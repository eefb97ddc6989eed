VERSION = "0.12.26+stand-in"
