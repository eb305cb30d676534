"""The quickstart's pictures: learning curves, confusion matrix, misread digits."""

import matplotlib.pyplot as plt


def plot_curves(losses, accuracies, path):
    epochs = range(1, len(losses) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    left.plot(epochs, losses)
    left.set(title="Training loss", xlabel="epoch", yscale="log")
    right.plot(epochs, [100 * value for value in accuracies])
    right.set(title="Test accuracy (%)", xlabel="epoch")
    figure.savefig(path)
    plt.close(figure)


def plot_confusion(predicted, labels, path):
    counts = (labels * 10 + predicted).bincount(minlength=100).view(10, 10)
    figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
    axes.imshow(counts.numpy(), cmap="Blues", norm="symlog")
    for row, column in counts.nonzero().tolist():
        right = row == column
        axes.text(column, row, counts[row, column].item(), ha="center", va="center",
                  color="white" if right else "black")
    axes.set(xlabel="read as", ylabel="digit", xticks=range(10), yticks=range(10))
    figure.savefig(path)
    plt.close(figure)


def plot_misread(images, predicted, labels, path):
    wrong = (predicted != labels).nonzero().flatten().tolist()
    figure = plt.figure(figsize=(1.4 * max(len(wrong), 1), 1.8), layout="constrained")
    for column, i in enumerate(wrong, start=1):
        axes = figure.add_subplot(1, len(wrong), column, xticks=[], yticks=[])
        axes.imshow(images[i, 0].numpy(), cmap="gray_r")
        axes.set_title(f"{labels[i].item()} read as {predicted[i].item()}", fontsize=8)
    figure.savefig(path)
    plt.close(figure)
