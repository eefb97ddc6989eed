"""What a person reads: sentences in their language, reports, and the JSON of the command line."""
