// Bindings for the core's exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace acapella {

// Sets errno of the Python exception of `Error` to its number(), which determines the exit code
// (acapella_core.errors).
template <typename Error>
void register_numbered(nanobind::handle type) {
    const auto translate = [](const std::exception_ptr& current, void* raised_type) {
        try {
            std::rethrow_exception(current);
        } catch (const Error& error) {
            auto* const python_type = static_cast<PyObject*>(raised_type);
            const nanobind::object raised = nanobind::borrow(python_type)(error.what());
            if (error.number() != 0) raised.attr("errno") = error.number();
            PyErr_SetObject(python_type, raised.ptr());
        }
    };
    nanobind::register_exception_translator(translate, type.ptr());
}

void bind_errors(nanobind::module_& module);

}  // namespace acapella
