// One pool of threads for the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>

namespace muntin {

// Thrown by `run_tasks` where `poll` asked to stop.
struct Interrupted : std::exception {};

// Called by the caller's thread between tasks; true ends the call.
using Poll = bool (*)();

void set_threads(int threads);  // the caller's thread included; at least 1
int threads();

// For a long task, every few milliseconds: throws Interrupted where its call is to end.
void checkpoint();

// Runs `task(0)` to `task(tasks - 1)`, in any order, on the caller's thread and at most `most - 1` others. Another call
// at the same time, from another thread, runs on its caller's thread alone. The first exception of a task is thrown
// when all have ended; tasks not begun by then are left out.
void run_tasks(size_t tasks, int most, Poll poll, const std::function<void(size_t)>& task);

// Runs work on a thread of its own, which the process has one of, after what was given to it before. What it throws ends the
// process. In a forked child, what the parent's thread was to do is left undone.
void run_in_background(std::function<void()> work);

}  // namespace muntin
