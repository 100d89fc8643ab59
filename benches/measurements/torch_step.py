"""The training step that the measurements time: four convolutions with batch norms, forward, backward and SGD."""


def training_step(batch, size):
    """Makes the network, and returns a function that takes one step on so many square images and waits for the GPU."""
    import torch

    torch.manual_seed(2)
    layers = []
    for wide, narrow in ((3, 64), (64, 64), (64, 128), (128, 128)):
        layers += [torch.nn.Conv2d(wide, narrow, 3, padding=1), torch.nn.BatchNorm2d(narrow), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers).cuda().half().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(batch + 3 + 2 * size)
    x = torch.randn(batch, 3, size, size, generator=generator).to("cuda", torch.half)
    x = x.contiguous(memory_format=torch.channels_last)

    def step():
        optimizer.zero_grad()
        net(x).float().square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step
