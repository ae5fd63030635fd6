"""What process 0 looks for in the texts: what stands out in them, and which of them to show."""
