"""Turn what happened into answers, at any size."""
