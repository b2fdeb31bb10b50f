#include "bindings/errors.hpp"

#include <unistd.h>

#include <exception>
#include <new>

#include "containers/memory_limit.hpp"
#include "input/input_error.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

constexpr char kOutOfMemory[] = "acapella: error: out of memory\n";
std::terminate_handler previous = nullptr;

// Arrow calls writers without handling C++ exceptions: a failed allocation in them ends here.
[[noreturn]] void terminate() {
    try {
        if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
    } catch (const std::bad_alloc&) {
        [[maybe_unused]] const ssize_t written =
            ::write(STDERR_FILENO, kOutOfMemory, sizeof kOutOfMemory - 1);
        ::_exit(2);
    } catch (...) {  // NOLINT(bugprone-empty-catch): for the previous handler
    }
    previous();
    ::_exit(2);
}

}  // namespace

void bind_errors(nb::module_& module) {
    register_numbered<input::InputError>(
        nb::exception<input::InputError>(module, "InputError", PyExc_OSError));
    nb::exception<MemoryLimitError>(module, "MemoryLimitError", PyExc_MemoryError);
    previous = std::set_terminate(terminate);
}

}  // namespace acapella
