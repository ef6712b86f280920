"""A thread's memory: where conversations are kept between runs."""
