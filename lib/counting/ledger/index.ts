/** What `ledger()` is made of. */
export { type Classified, classify } from './classify';
export {
  type LedgerAllocator,
  type LedgerCategory,
  type LedgerLine,
  makeLines,
} from './lines';
export { openOwnMemory } from './own-memory';
export { parseSmaps, readSmaps } from './smaps';
export { listThreads } from './stacks';
export { renderLedger } from './table';
