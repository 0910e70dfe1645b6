"""Loop: the parts of one backplane put together, and the steps that its workers take under the lead."""
