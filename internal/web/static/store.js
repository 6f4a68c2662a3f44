// What this tab remembers, and what this browser does. A browser that blocks site data throws at the first look at
// its storage: then it is remembered until the page is left.

class Store {
  constructor(open) {
    this.kept = new Map();
    try {
      this.storage = open();
      this.storage.getItem('');
    } catch {
      this.storage = null;
    }
  }

  // get returns '' for what is not there.
  get(name) {
    return (this.storage ? this.storage.getItem(name) : this.kept.get(name)) ?? '';
  }

  // set forgets the name if there is no value.
  set(name, value) {
    try {
      if (!this.storage) this.kept.set(name, value);
      else if (value) this.storage.setItem(name, value);
      else this.storage.removeItem(name);
    } catch { // full, or of size 0
      this.kept.set(name, value);
      this.storage = null;
    }
  }
}

export const tab = new Store(() => sessionStorage);
export const browser = new Store(() => localStorage);
