"""What happens next: loops that let a model call tools until it answers."""
