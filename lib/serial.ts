/** Runs asynchronous work one piece at a time, in order of arrival. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` after all that came before, whether that succeeded or failed. */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
