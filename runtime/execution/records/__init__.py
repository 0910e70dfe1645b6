"""Records: files of records, exported spans, and what was applied from outside, each once."""
