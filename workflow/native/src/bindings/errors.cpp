#include "bindings/errors.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "containers/memory_limit.hpp"
#include "input/input_error.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

constexpr int kInternal = 70;  // exit codes of acapella_core.errors
constexpr int kOutside = 75;
constexpr std::size_t kMaxReason = 200;

[[noreturn]] void exit_with_line(std::string_view message, int code) {
    std::string line = "acapella: error: " + std::string{message} + '\n';
    std::replace_if(
        line.begin(), line.end() - 1, [](unsigned char byte) { return byte < ' '; }, ' ');
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(code);
}

std::atomic<std::uint64_t> failed_allocations{0};

// Called by `operator new` of all libraries in the process, before the exception that they may ignore.
void count_failed_allocation() {
    failed_allocations.fetch_add(1, std::memory_order_relaxed);
    throw std::bad_alloc{};
}

// Called for exceptions that cannot be caught: Arrow calls `noexcept` functions that write output, and DuckDB
// destroys incomplete objects after a failed allocation.
[[noreturn]] void terminate() {
    if (failed_allocations.load(std::memory_order_relaxed) > 0) exit_with_line("out of memory", kOutside);
    try {
        if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
    } catch (const std::bad_alloc&) {
        exit_with_line("out of memory", kOutside);
    } catch (const std::exception& error) {
        const std::string_view reason{error.what()};
        exit_with_line(
            "a library failed, perhaps because memory is short: " + std::string{reason.substr(0, kMaxReason)},
            kInternal);
    } catch (...) {  // NOLINT(bugprone-empty-catch): not a C++ exception
    }
    exit_with_line("a library ended the program", kInternal);
}

struct FatalSignal {
    int number;
    const char* line;
};

constexpr std::array<FatalSignal, 5> kFatalSignals{{
    {SIGSEGV,
     "acapella: error: invalid memory access (SIGSEGV), perhaps because memory is short; --debug shows "
     "where\n"},
    {SIGBUS,
     "acapella: error: a file changed or could not be read while in use (SIGBUS); --debug shows where\n"},
    {SIGABRT, "acapella: error: a library ended the program (SIGABRT); --debug shows where\n"},
    {SIGFPE, "acapella: error: invalid arithmetic (SIGFPE); --debug shows where\n"},
    {SIGILL,
     "acapella: error: an instruction that this CPU does not support (SIGILL); --debug shows where\n"},
}};

// Makes only async-signal-safe calls (signal-safety(7)). The exit code is 128 plus the number, as in a shell,
// so that a crash counts as a crash in the report on failed samples.
void exit_with_fatal_signal(int number) {
    for (const FatalSignal& fatal : kFatalSignals) {
        if (fatal.number != number) continue;
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, fatal.line, std::strlen(fatal.line));
    }
    ::_exit(128 + number);
}

// DuckDB dereferences a null pointer after some failed allocations. In the calling thread, the handler has a
// separate stack, because that of the thread may be full; in other threads, it uses the thread's stack.
void exit_on_fatal_signal() {
    static std::array<char, 16 * 1024> stack;  // more than MINSIGSTKSZ with AVX-512 registers
    const stack_t own{stack.data(), 0, stack.size()};
    ::sigaltstack(&own, nullptr);
    for (const FatalSignal& fatal : kFatalSignals) {
        struct sigaction action {};
        ::sigaction(fatal.number, nullptr, &action);
        if (action.sa_handler != SIG_DFL) continue;  // PYTHONFAULTHANDLER, or ignored by the parent
        action.sa_handler = exit_with_fatal_signal;
        action.sa_flags = SA_ONSTACK;
        ::sigaction(fatal.number, &action, nullptr);
    }
}

}  // namespace

void bind_errors(nb::module_& module) {
    register_numbered<input::InputError>(
        nb::exception<input::InputError>(module, "InputError", PyExc_OSError));
    nb::exception<MemoryLimitError>(module, "MemoryLimitError", PyExc_MemoryError);
    std::set_terminate(terminate);
    std::set_new_handler(count_failed_allocation);
    module.def(
        "failed_allocations", [] { return failed_allocations.load(std::memory_order_relaxed); },
        "Return the number of failed allocations of C++ code in this process, including other libraries.");
    module.def("exit_on_fatal_signal", exit_on_fatal_signal,
               "Print one line and exit with 128 + the number of the signal on SIGSEGV, SIGBUS, SIGABRT, "
               "SIGFPE or SIGILL.");
}

}  // namespace acapella
