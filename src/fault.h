/*
 * Reading memory that may be gone.
 *
 * Where a file that is mapped into memory has become shorter, or its disk fails, reading the mapped memory raises SIGBUS,
 * which ends the process. amofa_guarded() reads under a handler of this signal that jumps out of the read. The handler is
 * there only while any thread reads so, and faults of other threads, or signals sent by someone, reach the one before it.
 *
 * What is read in this way is read by plain loops: nothing there allocates, locks, or calls Python.
 */
#ifndef AMOFA_FAULT_H
#define AMOFA_FAULT_H

typedef void (*amofa_reader)(const void *arguments);

#ifdef _WIN32

/* A file cannot become shorter here while it is mapped. */
static int amofa_guarded(amofa_reader read, const void *arguments)
{
    read(arguments);
    return 1;
}

static void amofa_forget_guards(void) {}

#else

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* Where a read of this thread goes on after a fault; NULL outside of reads. */
static _Thread_local sigjmp_buf *volatile amofa_way_out;

/* How many reads are under way, and what was done about the signal before them; the lock is held for both. */
static atomic_flag amofa_guards_lock = ATOMIC_FLAG_INIT;
static int amofa_guards;
static struct sigaction amofa_before;

static void amofa_lock_guards(void)
{
    while (atomic_flag_test_and_set_explicit(&amofa_guards_lock, memory_order_acquire)) sched_yield();
}

static void amofa_unlock_guards(void) { atomic_flag_clear_explicit(&amofa_guards_lock, memory_order_release); }

static void amofa_on_fault(int number, siginfo_t *info, void *context)
{
    /* Codes of the kernel's own are positive; others come from kill() and its kin. */
    const int is_sent = info->si_code <= 0;
    if (amofa_way_out != NULL && !is_sent) siglongjmp(*amofa_way_out, 1);
    if (amofa_before.sa_flags & SA_SIGINFO) {
        amofa_before.sa_sigaction(number, info, context);
    } else if (amofa_before.sa_handler == SIG_DFL || (amofa_before.sa_handler == SIG_IGN && !is_sent)) {
        /* What faulted is tried once more on return, now without this handler. */
        sigaction(number, &amofa_before, NULL);
        if (is_sent) raise(number);
    } else if (amofa_before.sa_handler != SIG_IGN) {
        amofa_before.sa_handler(number);
    }
}

static void amofa_restore_handler(void)
{
    struct sigaction now;
    /* Whoever has set another one meanwhile keeps it. */
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == amofa_on_fault)
        sigaction(SIGBUS, &amofa_before, NULL);
}

static void amofa_add_guard(void)
{
    amofa_lock_guards();
    if (amofa_guards++ == 0) {
        /* The signal is not blocked while it is handled, since the handler is left by a jump that keeps the mask. */
        struct sigaction action = {.sa_sigaction = amofa_on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &amofa_before);
    }
    amofa_unlock_guards();
}

static void amofa_remove_guard(void)
{
    amofa_lock_guards();
    if (--amofa_guards == 0) amofa_restore_handler();
    amofa_unlock_guards();
}

/* Have something read; returns whether all of it could be. */
static int amofa_guarded(amofa_reader read, const void *arguments)
{
    sigjmp_buf way_out;
    volatile int is_read = 0;
    amofa_add_guard();
    if (sigsetjmp(way_out, 0) == 0) {
        amofa_way_out = &way_out;
        /* The handler looks at it in the midst of the read. */
        atomic_signal_fence(memory_order_seq_cst);
        read(arguments);
        atomic_signal_fence(memory_order_seq_cst);
        is_read = 1;
    }
    amofa_way_out = NULL;
    amofa_remove_guard();
    return is_read;
}

/* In a forked process: it has none of the threads that read. */
static void amofa_forget_guards(void)
{
    if (amofa_guards > 0) amofa_restore_handler();
    amofa_guards = 0;
    atomic_flag_clear(&amofa_guards_lock);
}

#endif
#endif
