/**
 * Runs clean-up work however this process ends short of SIGKILL: by itself, or interrupted.
 * A signal's default action skips `exit` listeners, so both have to be watched.
 */

const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const pending = new Set<() => void>();

/**
 * Calls `cleanup` (synchronous, at most once) when the process exits or is interrupted.
 * Returns a function that takes it back; a process with nothing left to clean has no listeners.
 */
export function onExit(cleanup: () => void): () => void {
  // A wrapper of its own for every registration, so that one function can be registered twice.
  const entry = () => cleanup();
  if (pending.size === 0) listen();
  pending.add(entry);
  return () => {
    if (pending.delete(entry) && pending.size === 0) unlisten();
  };
}

function listen(): void {
  process.on('exit', runAll);
  for (const signal of signals) process.on(signal, interrupted);
}

function unlisten(): void {
  process.off('exit', runAll);
  unlistenSignals();
}

function unlistenSignals(): void {
  for (const signal of signals) process.off(signal, interrupted);
}

/** Latest first: what was made last may lie inside what was made before. */
function runAll(): void {
  for (const cleanup of [...pending].reverse()) {
    pending.delete(cleanup);
    try {
      cleanup();
    } catch {
      // The process is ending: the other clean-ups matter more than this one's complaint.
    }
  }
}

function interrupted(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) {
    // The application listens too: it may want to finish its work first, with what we would take
    // away, and exit after that. Our listeners go, so that it sees itself as the last one.
    unlistenSignals();
    return;
  }
  runAll();
  unlisten();
  // With our listener gone the signal ends the process as it would have without us.
  process.kill(process.pid, signal);
}
