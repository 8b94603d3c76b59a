"""What is done for the time of a block of code, and undone at its end, Ctrl-C or not."""


cdef class Scope:
    """A context manager whose end no KeyboardInterrupt can prevent or cut short.

    Python raises KeyboardInterrupt between any two steps of Python code: in the midst of what undoes something, or
    before its first line. It does not here, in compiled code.

    Parameters
    ----------
    enter, leave : callable
        Without arguments. `leave` must be right at any moment from the beginning of `enter` on, and more than once; it
        is called until it gets to its end.

    Raises
    ------
    KeyboardInterrupt
        After `leave`, if there was one meanwhile.
    """

    cdef object enter
    cdef object leave

    def __init__(self, enter not None, leave not None):
        self.enter, self.leave = enter, leave

    def __enter__(self):
        try:
            self.enter()
        except BaseException:
            self._end()
            raise

    def __exit__(self, *_):
        self._end()

    cdef int _end(self) except -1:
        interrupt = None
        while True:
            try:
                self.leave()
                break
            except KeyboardInterrupt as caught:
                interrupt = caught
        if interrupt is not None:
            raise interrupt
        return 0
