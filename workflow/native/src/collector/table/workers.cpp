#include "collector/table/workers.hpp"

namespace acapella::collector {

Workers::Workers(unsigned count) : count_(count), start_(count), done_(count) {
    for (unsigned part = 1; part < count; ++part) threads_.emplace_back([this, part] { serve(part); });
}

Workers::~Workers() {
    if (threads_.empty()) return;
    job_ = nullptr;
    start_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
}

void Workers::run(const std::function<void(unsigned)>& job) {
    job_ = &job;
    if (threads_.empty()) {
        job(0);
        return;
    }
    start_.arrive_and_wait();
    run_part(0);
    done_.arrive_and_wait();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Workers::serve(unsigned part) {
    for (;;) {
        start_.arrive_and_wait();
        if (job_ == nullptr) return;
        run_part(part);
        done_.arrive_and_wait();
    }
}

void Workers::run_part(unsigned part) {
    try {
        (*job_)(part);
    } catch (...) {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::current_exception();
    }
}

}  // namespace acapella::collector
