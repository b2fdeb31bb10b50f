#include "bindings/errors.hpp"

#include <unistd.h>

#include <exception>
#include <new>

#include "input/input_error.hpp"
#include "memory_limit.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

constexpr char kOutOfMemory[] = "acapella: error: out of memory\n";
std::terminate_handler previous = nullptr;

// Arrow's writers are called without a handler of C++ exceptions: a failed allocation in them arrives here.
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

// InputError with the errno of the core, which decides the exit code (acapella_core.errors).
void translate(const std::exception_ptr& current, void* type) {
    try {
        std::rethrow_exception(current);
    } catch (const input::InputError& error) {
        const nb::object raised = nb::borrow(static_cast<PyObject*>(type))(error.what());
        if (error.number() != 0) raised.attr("errno") = error.number();
        PyErr_SetObject(static_cast<PyObject*>(type), raised.ptr());
    }
}

}  // namespace

void bind_errors(nb::module_& module) {
    const nb::exception<input::InputError> type(module, "InputError", PyExc_OSError);
    nb::register_exception_translator(translate, type.ptr());
    nb::exception<MemoryLimitError>(module, "MemoryLimitError", PyExc_MemoryError);
    previous = std::set_terminate(terminate);
}

}  // namespace acapella
