/** What `promise` settles with, or, at once, the signal's reason when it is aborted before that. */
export function interruptible<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    const settled = () => signal.removeEventListener('abort', abort);
    promise.then(resolve, reject).then(settled);
  });
}
