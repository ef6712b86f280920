"""What tools may touch: files of one folder, and the network through one door."""
