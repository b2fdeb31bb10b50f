#include "bindings/errors.hpp"

#include "input/input_error.hpp"

namespace nb = nanobind;

namespace acapella {

void bind_errors(nb::module_& module) {
    nb::exception<input::InputError>(module, "InputError", PyExc_OSError);
}

}  // namespace acapella
