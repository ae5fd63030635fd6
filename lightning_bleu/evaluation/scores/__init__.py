"""What process 0 does with the sentences of all processes: it joins them, scores them, and compares the scores."""
