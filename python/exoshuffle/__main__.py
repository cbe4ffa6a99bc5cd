"""``python -m exoshuffle`` is the program ``exoshuffle``, where no shell finds that."""

from exoshuffle_command import main

if __name__ == "__main__":
    main()
