"""What is optimised: the focal weight, advantages of groups, and losses; both engines read it."""
