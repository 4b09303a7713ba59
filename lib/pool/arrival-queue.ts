/** Runs asynchronous jobs one at a time, in order of arrival. */
export class ArrivalQueue {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Whether no job runs or waits. */
  get idle(): boolean {
    return this.#waiting === 0;
  }

  /** Runs `job` after all that came before, whether those succeeded or failed. */
  async run<T>(job: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const result = this.#last.then(job);
    this.#last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      this.#waiting -= 1;
    }
  }
}
