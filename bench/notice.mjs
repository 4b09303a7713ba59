// npm run bench -- notice: from the moment that usage passes a threshold, stamped by the code that
// allocates, to the watchdog's notice; JavaScript is blocked and all cores are busy.
import { runChild } from './support/children.mjs';

export default () => ({
  smallChunks: runChild('notice.mjs', [50, 64 * 1024]),
  largeChunks: runChild('notice.mjs', [50, 4 << 20]),
});
